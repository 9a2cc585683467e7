package native

import "errors"

// ErrProgram is wrapped where the executable is not the one that was imaged.
var ErrProgram = errors.New("not the program that was imaged")
