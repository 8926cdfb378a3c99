"""Commands run under our eyes: their output is kept, their exit status and signals stay theirs."""
