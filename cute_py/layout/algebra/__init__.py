"""The operations of the layout algebra, each with its law."""
