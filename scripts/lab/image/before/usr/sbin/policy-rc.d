#!/bin/sh
# No service starts while packages are installed into a folder.
exit 101
