"""Read users' labelled files into examples, with one module for each form of example."""
