package mpi

import "os"

// Version returns the version of the MPI standard that this package follows, 4 and 1. docs/mpi.md tells which of
// its calls there are. (MPI-4.1, chapter 9.1.1)
func Version() (version, subversion int) { return 4, 1 }

// ProcessorName returns the name of the machine that the calling rank runs on. A rank that was restarted or moved
// finds another name. Errors: those of the operating system. (MPI-4.1, chapter 9.1.2)
func ProcessorName() (string, error) { return os.Hostname() }
