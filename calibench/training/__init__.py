"""Training of one run: from a configuration to a trained network, its logits and its run folder."""
