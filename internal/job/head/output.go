package head

import (
	"github.com/gorun-mpi/gorun/internal/job/stdio"
)

// openOutput opens the files that -output-dir asks for; without it there are none.
func (h *head) openOutput() (*stdio.Files, error) {
	if h.opt.OutputDir == "" {
		return nil, nil
	}
	files, err := stdio.OpenFiles(h.opt.OutputDir, h.id, h.opt.NP, h.opt.From != nil, func(err error) {
		// The printer calls this, and must not wait for the loop: the loop may be waiting for the
		// printer.
		go h.post(func() { h.say("output of ranks is lost, the job goes on: %v", err) })
	})
	if err == nil {
		files.Tag = h.opt.TagOutput
	}
	return files, err
}
