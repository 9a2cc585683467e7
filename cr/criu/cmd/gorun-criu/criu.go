package main

import (
	"github.com/gorun-mpi/gorun/cr/criu"
	"github.com/gorun-mpi/gorun/launcher"
)

// This command is gorun with one back-end more: every other file here is a link
// to one of cmd/gorun, whose package, being a command, cannot be imported.

func init() { launcher.RegisterImager(&criu.Backend{}) }
