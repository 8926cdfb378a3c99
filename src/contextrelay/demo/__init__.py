"""The demo: three scripted agents at work on one incident, with documents of our own."""
