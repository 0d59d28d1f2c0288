"""Text processing: corpora, cleaning, sentences and tokenizers. Nothing here imports torch."""
