"""Users' labelled files -> examples: one file a form."""
