package outfile

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Changed lists regular files of this user in a folder that were written to after an instant, in the order of their names. What
// restarts have kept beside files does not count. Files without a name there, or in other folders, are not seen.
func Changed(dir string, since time.Time) (paths []string) {
	entries, _ := os.ReadDir(dir) // what cannot be read cannot be told
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !info.ModTime().After(since) || strings.Contains(e.Name(), ".gorun-") {
			continue
		}
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths
}
