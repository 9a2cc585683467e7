package image

import (
	"crypto/sha256"
	"runtime"

	"golang.org/x/sys/unix"
)

// work takes runs of blocks until none are left. After a failure it only
// empties the queue.
func (w *Writer) work(e *encoder) {
	defer w.workers.Done()
	defer e.close()
	var in, buf []byte // what is not in memory yet; what is stored
	for j := range w.jobs {
		if w.canceled() {
			w.giveUp(j.s.name, ErrCanceled)
		}
		if w.failed.Load() != nil {
			continue
		}
		// They grow with what there is: to clear as much as a run may have takes longer than a small image.
		n := j.most()
		if j.data == nil && len(in) < n {
			in = alignedBuffer(n)
		}
		if need := int(alignUp(int64(n))) + maxEncoded(min(n, w.opt.BlockSize)); len(buf) < need {
			buf = alignedBuffer(need)
		}
		cpu := threadTime()
		err := w.do(&j, e, in, buf)
		w.cpu.Add(cpu())
		if err != nil {
			w.giveUp(j.s.name, err)
			continue
		}
		w.advance(uint64(len(j.data)))
	}
}

// do brings the run of a job into the file.
func (w *Writer) do(j *job, e *encoder, in, buf []byte) error {
	if j.data == nil {
		if err := j.get(in); err != nil {
			return err
		}
	}
	return w.store(*j, e, buf)
}

// threadTime begins to measure the processor time of the goroutine, which keeps its thread until the function
// returned is called. That tells the time in ns.
func threadTime() func() int64 {
	runtime.LockOSThread()
	now := func() int64 {
		var t unix.Timespec
		if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
			return 0
		}
		return t.Nano()
	}
	start := now()
	return func() int64 {
		defer runtime.UnlockOSThread()
		return now() - start
	}
}

// most is how many bytes the run has at most.
func (j *job) most() int {
	switch {
	case j.data != nil:
		return len(j.data)
	case j.fill != nil:
		return j.room
	}
	return int(min(uint64(j.n)*uint64(j.s.blockSize), j.s.size-uint64(j.first)*uint64(j.s.blockSize)))
}

// get brings the run into buf.
func (j *job) get(buf []byte) error {
	if j.fill != nil {
		return j.fillSection(buf)
	}
	return j.fetch(buf)
}

// fetch reads the run into buf.
func (j *job) fetch(buf []byte) error {
	off := int64(j.first) * int64(j.s.blockSize)
	j.data = buf[:j.most()]
	if got, err := j.src.ReadAt(j.data, off); got < len(j.data) {
		return fail(err, "reading the section's data at %d", off)
	}
	return nil
}

// store writes the blocks of a run. Neighbours that are stored as they are
// are written together.
func (w *Writer) store(j job, e *encoder, buf []byte) error {
	size := int(j.s.blockSize)
	plain := 0 // blocks before i that wait to be written as they are
	flush := func(i int) error {
		if plain == 0 {
			return nil
		}
		first := i - plain
		plain = 0
		return w.storePlain(j, first, i, buf)
	}
	for i := range j.n {
		raw := j.data[i*size : min((i+1)*size, len(j.data))]
		b := &j.s.blocks[j.first+i]
		if isZero(raw) {
			*b = block{codec: codecZero}
			if err := flush(i); err != nil {
				return err
			}
			continue
		}
		b.sumRaw = checksum(raw)
		p, id := e.encode(raw, buf[:0])
		b.codec, b.stored, b.digest = id, uint32(len(p)), sha256.Sum256(p)
		if id == codecNone {
			b.sumStored = b.sumRaw
			plain++
			continue
		}
		b.sumStored = checksum(p)
		if err := w.out.put(b, p, buf); err != nil {
			return err
		}
		if err := flush(i); err != nil {
			return err
		}
	}
	return flush(j.n)
}

// storePlain writes blocks first to end of the run in one piece. Small blocks go one by one, because they are
// placed only when their pack is written.
func (w *Writer) storePlain(j job, first, end int, buf []byte) error {
	size := int(j.s.blockSize)
	data := j.data[first*size : min(end*size, len(j.data))]
	b := &j.s.blocks[j.first+first]
	if len(data) < packBelow {
		for i := first; i < end; i++ {
			raw := j.data[i*size : min((i+1)*size, len(j.data))]
			if err := w.out.put(&j.s.blocks[j.first+i], raw, buf); err != nil {
				return err
			}
		}
		return nil
	}
	if err := w.out.put(b, data, buf); err != nil {
		return err
	}
	for i := first + 1; i < end; i++ {
		j.s.blocks[j.first+i].off = b.off + uint64((i-first)*size)
	}
	return nil
}

func (w *Writer) advance(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done += n
	if w.opt.Progress != nil {
		w.opt.Progress(w.done)
	}
}
