"""Commands, samples, mutations and kills; the test suite uses them too."""
