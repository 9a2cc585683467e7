package image

// fillFunc gives a section's bytes in p, and its type.
type fillFunc = func(p []byte) (n int, typ string, err error)

// SectionFill adds a section of at most most bytes. Before Commit returns, a worker calls fill to get the
// bytes. So data need not be held before they are written. most may be up to four times the block size. The
// content of the buffer is arbitrary until fill writes to it. Its first n bytes become the section, and typ its
// type. If n is 0 and typ is empty, the image has no such section. Several workers call the fills of different
// sections at once. An error ends the image.
func (w *Writer) SectionFill(name, kind string, most int, fill func(p []byte) (n int, typ string, err error)) error {
	if len(name) > maxName || len(kind) > maxKind || most < 0 || most > runBlocks*w.opt.BlockSize {
		return w.wrap(name, fail(ErrTooLarge, "name, kind or size"))
	}
	s, err := w.enter(name, kind, "", 0)
	if err != nil {
		return err
	}
	return w.queue(job{s: s, fill: fill, room: most})
}

// fillSection calls fill and gives the section its blocks. Until Commit has seen the workers end, only the
// worker that has the job reads them.
func (j *job) fillSection(buf []byte) error {
	n, typ, err := j.fill(buf[:j.room:j.room])
	if err != nil {
		return err
	}
	if n < 0 || n > j.room || len(typ) > maxType {
		return fail(ErrTooLarge, "%d bytes and a type of %d given, %d bytes were announced", n, len(typ), j.room)
	}
	s := j.s
	s.size, s.typ, s.absent = uint64(n), typ, n == 0 && typ == ""
	s.blocks = make([]block, blockCount(s.size, s.blockSize))
	j.data, j.n = buf[:n], len(s.blocks)
	return nil
}
