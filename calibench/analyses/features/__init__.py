"""Maps of the features that go into a network's last layer: PCA and t-SNE."""
