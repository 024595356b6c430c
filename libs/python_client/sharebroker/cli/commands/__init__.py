"""The commands of `sharebroker`, one module each; the modules beside this package are shared by them."""
