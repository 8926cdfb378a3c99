"""HTTP: agents on other machines and in other languages reach the same store."""
