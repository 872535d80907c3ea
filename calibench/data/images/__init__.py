"""Image sets: official files, folders of images, corruptions, batches augmented on the device."""
