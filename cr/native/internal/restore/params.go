package restore

import (
	"fmt"
	"strings"
)

// ParamIDs is the parameter that says which ids restored processes have.
const ParamIDs = "native.ids"

// The values of ParamIDs.
const (
	idsAuto = "auto" // the same where there is C in the program and it can be had, otherwise new ones
	idsSame = "same" // the same, or the restore fails
	idsNew  = "new"  // new ones, which are mended where run-times keep them
)

// CheckIDs says what is wrong with a value of ParamIDs.
func CheckIDs(value string) error {
	switch value {
	case "", idsAuto, idsSame, idsNew:
		return nil
	}
	return fmt.Errorf("-param %s=%s: known are %s, %s and %s", ParamIDs, value, idsAuto, idsSame, idsNew)
}

// CheckParams refuses parameters of a job that begin with prefix and are not known here.
func CheckParams(given map[string]string, prefix string) error {
	for name := range given {
		if strings.HasPrefix(name, prefix) && name != ParamIDs {
			return fmt.Errorf("-param %s: no such parameter, 'gorun info' lists them", name)
		}
	}
	return CheckIDs(given[ParamIDs])
}
