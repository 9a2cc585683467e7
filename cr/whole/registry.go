package whole

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

var imagers struct {
	sync.Mutex
	all []Imager
}

// Register adds a back-end. It is called before anything else, by head and
// agents alike.
func Register(i Imager) {
	imagers.Lock()
	defer imagers.Unlock()
	imagers.all = append(imagers.all, i)
}

// All returns the back-ends in the order in which they were registered.
func All() []Imager {
	imagers.Lock()
	defer imagers.Unlock()
	return slices.Clone(imagers.all)
}

// Find finds a back-end by its name.
func Find(name string) (Imager, error) {
	var known []string
	for _, i := range All() {
		if i.Name() == name {
			return i, nil
		}
		known = append(known, i.Name())
	}
	return nil, fmt.Errorf("this gorun has no back-end %q that images whole processes, it has: %s", name, strings.Join(known, ", "))
}

// Default names the back-end that -cr=auto uses, the first that was registered;
// "" if there is none.
func Default() string {
	for _, i := range All() {
		return i.Name()
	}
	return ""
}
