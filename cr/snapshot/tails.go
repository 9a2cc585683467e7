package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tailsFile lists, within a job's folder, the tails of the job: files with what its restarts have cut off
// output files. Each is a Go string on a line of its own.
const tailsFile = "tails"

// maxTails bounds that file, in bytes.
const maxTails = 64 << 20

// ErrTails says that the list of a job's tails cannot be trusted.
var ErrTails = errors.New("not a list of tails")

// AddTail notes the path of a tail. A restart of the job has cut it off an output file and kept it beside that
// file. The job's folder is made if need be.
func (c *Catalogue) AddTail(job, path string) error {
	err := checkJob(job)
	if err == nil && !isTail(path) {
		err = fmt.Errorf("%w: %q", ErrTails, path)
	}
	if err == nil {
		err = c.makeJob(job)
	}
	if err == nil {
		err = c.changeTails(job, func(all []string) ([]string, error) {
			if slices.Contains(all, path) {
				return all, nil
			}
			return append(all, path), nil
		})
	}
	if err != nil {
		return fmt.Errorf("note a tail of job %s: %w", job, explain(err))
	}
	return nil
}

// Tails lists the tails of a job that are still there, the oldest first.
func (c *Catalogue) Tails(job string) ([]string, error) {
	all, err := readTails(c.JobDir(job), c.trust)
	if err != nil {
		return nil, fmt.Errorf("tails of job %s: %w", job, err)
	}
	return slices.DeleteFunc(all, func(path string) bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	}), nil
}

// RemoveTails removes the tails of a job and returns those that were there.
func (c *Catalogue) RemoveTails(job string) (removed []string, err error) {
	if _, err := os.Stat(filepath.Join(c.JobDir(job), tailsFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	err = c.changeTails(job, func(all []string) (left []string, err error) {
		for _, path := range all {
			switch e := removeTail(path); {
			case e == nil:
				removed = append(removed, path)
			case !errors.Is(e, fs.ErrNotExist):
				left, err = append(left, path), errors.Join(err, e)
			}
		}
		return left, err
	})
	if err != nil {
		return removed, fmt.Errorf("remove the tails of job %s: %w", job, err)
	}
	return removed, nil
}

// removeTail removes nothing but a regular file.
func removeTail(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s: %w: it is no regular file", path, ErrTails)
	}
	return explain(os.Remove(path))
}

// changeTails replaces the list, whole or not at all. It writes what f returns, even beside an error.
func (c *Catalogue) changeTails(job string, f func([]string) ([]string, error)) error {
	dir := c.JobDir(job)
	l, err := lockJob(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	before, err := readTails(dir, false)
	if err != nil {
		return err
	}
	after, err := f(slices.Clone(before))
	path := filepath.Join(dir, tailsFile)
	switch {
	case slices.Equal(before, after):
		return err
	case len(after) == 0:
		return errors.Join(err, explain(os.Remove(path)))
	}
	return errors.Join(err, writeDurable(path, formatPaths(after)))
}

func readTails(dir string, trust bool) ([]string, error) {
	all, err := readIfThere(filepath.Join(dir, tailsFile), maxTails, trust, parseTails)
	if errors.Is(err, ErrTails) {
		err = fmt.Errorf("%w (remove it to forget them)", err)
	}
	return all, err
}

func formatPaths(all []string) []byte {
	var b []byte
	for _, path := range all {
		b = append(strconv.AppendQuote(b, path), '\n')
	}
	return b
}

// parseTails reads a list from bytes that may be damaged or forged. Paths that it returns may be removed at a
// user's request, so every path must have the name of a tail.
func parseTails(b []byte) ([]string, error) { return parsePaths(b, isTail, ErrTails) }

// parsePaths reads a list of paths that are of some kind. Else the error is bad.
func parsePaths(b []byte, is func(path string) bool, bad error) ([]string, error) {
	if len(b) > maxTails {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", bad, len(b), maxTails)
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		path, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil || !is(path) {
			return nil, fmt.Errorf("%w: line %d: %.100q", bad, len(all)+1, line)
		}
		all = append(all, path)
	}
	return all, nil
}

// isTail reports whether a path is absolute and ends as those of tails do:
// FILE.gorun-<incarnation>-tail, and a number if there are several.
func isTail(path string) bool {
	i := strings.LastIndex(path, ".gorun-")
	if i < 1 || !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return false
	}
	tag, number, ok := strings.Cut(path[i+len(".gorun-"):], "-tail")
	return ok && len(tag) == 16 && strings.Trim(tag, "0123456789abcdef") == "" && strings.Trim(number, "0123456789") == ""
}
