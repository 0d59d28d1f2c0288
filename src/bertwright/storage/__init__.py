"""Read and write named tensors: model folders, pickles, TensorFlow's bundles, HDF5 and names."""
