package native

import (
	"fmt"
	"runtime"
)

// errArch is the reason where the architecture has no code here.
var errArch = fmt.Errorf("%w: native images are made on linux/amd64 only, this is %s/%s (use -cr=self)",
	ErrUnsupported, runtime.GOOS, runtime.GOARCH)
