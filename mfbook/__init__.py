"""mfbook: a mean-field theory of attention heads, made to run."""
