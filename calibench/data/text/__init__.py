"""Text sets: official files and own ones, tokens, vocabularies and word vectors."""
