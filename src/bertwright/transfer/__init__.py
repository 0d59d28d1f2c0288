"""Transfer of an encoder to a task: the parameters to train, when and at which learning rates, and
frozen features."""
