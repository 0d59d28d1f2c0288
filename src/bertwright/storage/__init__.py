"""Bytes to named tensors and back: headers, manifests, pickles, TensorFlow's bundles, names."""
