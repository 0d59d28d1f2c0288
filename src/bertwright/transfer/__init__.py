"""How an encoder is trained for a task: which parameters, when, and at which learning rates; and
frozen features."""
