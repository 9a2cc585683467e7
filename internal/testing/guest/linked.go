package guest

import (
	"fmt"
	"os/exec"
	"regexp"
)

// library matches one in what ldd tells: the path that it was found at.
var library = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+) \(0x`)

// Linked adds programs of this machine to a guest's files, at the paths that they have here, with the libraries that they are linked with. Others that
// they load are to be added, as programs are.
func Linked(files map[string]string, programs ...string) error {
	for _, p := range programs {
		out, err := exec.Command("ldd", p).Output()
		if err != nil {
			return fmt.Errorf("ldd %s: %w", p, err)
		}
		files[p] = p
		for _, m := range library.FindAllStringSubmatch(string(out), -1) {
			files[m[1]] = m[1]
		}
	}
	return nil
}
