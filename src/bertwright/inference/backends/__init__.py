"""How layers are computed: plain PyTorch, packed weights, int8."""
