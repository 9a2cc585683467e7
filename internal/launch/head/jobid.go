package head

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeJobID puts text into -jobid-file, whole or not at all. The file is empty from the start of
// gorun until all ranks are up. So a reader that waits for the id never takes that of the job
// before. A symbolic link stays one; a pipe or a device is written to.
func (h *head) writeJobID(text string) error {
	name := h.opt.JobIDFile
	if name == "" {
		return nil
	}
	st, err := os.Stat(name)
	switch {
	case err == nil && !st.Mode().IsRegular():
		err = tell(name, text)
	case err == nil:
		if name, err = filepath.EvalSymlinks(name); err == nil {
			err = replace(name, text)
		}
	default:
		err = replace(name, text)
	}
	if err != nil {
		return fmt.Errorf("-jobid-file: %w", err)
	}
	return nil
}

// tell writes to a pipe or the like, which holds nothing that could be emptied.
func tell(name, text string) error {
	if text == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// replace puts a new file in the place of name.
func replace(name, text string) error {
	tmp := filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%d", filepath.Base(name), os.Getpid()))
	err := os.WriteFile(tmp, []byte(text), 0o644)
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}
