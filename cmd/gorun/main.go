package main

import (
	"os"

	"github.com/gorun-mpi/gorun/launcher"
	"github.com/gorun-mpi/gorun/launcher/local"
	"strconv"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == launcher.AgentVerb {
		os.Exit(launcher.AgentMain(os.Args[2:]))
	}
	n, _ := strconv.Atoi(os.Args[2])
	os.Exit(launcher.Run(launcher.Options{NP: n, Program: os.Args[3], Args: os.Args[4:], Manager: local.Manager{}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, HandleSignals: true, Verbose: os.Getenv("V") != ""}))
}
