// Package criu images ranks with CRIU (https://criu.org): the same work as package
// cr/native, done by the criu command that is on the PATH, through the go-criu
// library. It is a module of its own, so that its dependencies reach only programs
// that ask for it:
//
//	git clone https://github.com/gorun-mpi/gorun
//	cd gorun/cr/criu && go install ./cmd/gorun-criu
//
// installs a gorun that knows the back-end. It is installed from a checkout: the
// module takes gorun from the folders around it (replace in go.mod), which go
// install PACKAGE@VERSION refuses.
//
// What CRIU costs compared with cr/native: it wants root, or CAP_CHECKPOINT_RESTORE
// with CAP_SYS_PTRACE; the rank stands still until all of its memory has been
// written; images are never incremental; they go through a folder of temporary
// files (TMPDIR), so that a snapshot needs its size twice for a moment; a rank
// comes back under the process id it had, which must be free, and its program
// must lie where it was, so that two restarts of one snapshot cannot live side
// by side on one machine. What it gives: CRIU also images programs with C in
// them.
//
// # What an image holds
//
// An image is a file of package cr/image with Meta.Backend "criu": section kind
// "process", name "state" is the JSON of State; every file that criu wrote is a
// section of kind "criu" under its own name. Digests, checks and the catalogue
// work as with every other image.
//
// # How a rank's descriptors come back
//
// The stream to the agent is one half of a socket pair: it is named external when
// it is dumped, and inherited when it is restored. Standard input, output and
// error, if they were pipes, are inherited in the same way. Connections of the
// transport and of the program come back closed (criu's tcp-close); the message
// layer makes new ones.
package criu
