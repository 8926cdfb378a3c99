"""The demo: three scripted agents work on one incident, with documents of our own."""
