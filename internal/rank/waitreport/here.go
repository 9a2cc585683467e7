package waitreport

import (
	"fmt"
	"runtime"
)

// Here returns the place in the program of the call of this library that the caller is in, "" if there is none.
func Here() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if pkg, _ := split(f.Function); f.Function != "" && !standard(pkg) && !library(pkg) {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}
