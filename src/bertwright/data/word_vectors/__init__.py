"""What static word vectors are trained on."""
