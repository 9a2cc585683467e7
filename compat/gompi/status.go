package mpi

import gorun "github.com/gorun-mpi/gorun/mpi"

// Any rank and any tag, in receives and probes. (MPI-4.1, chapter 3.2.4)
const (
	MPI_ANY_SOURCE = gorun.AnySource
	MPI_ANY_TAG    = gorun.AnyTag
)

// Status tells what a receive or a probe has found. (MPI-4.1, chapter 3.2.5)
type Status struct {
	s gorun.Status
}

// GetCount returns how many elements of type t the message has, gorun/mpi.Undefined if that is no whole number.
// (MPI-4.1, chapter 3.2.5)
func (s Status) GetCount(t DataType) int {
	size := t.size()
	if size == 0 || s.s.Bytes%size != 0 {
		return gorun.Undefined
	}
	return s.s.Bytes / size
}

// GetError returns 0, MPI_SUCCESS: a receive that fails ends the job.
func (s Status) GetError() int { return 0 }

// GetSource returns the rank of the sender.
func (s Status) GetSource() int { return s.s.Source }

// GetTag returns the tag of the message.
func (s Status) GetTag() int { return s.s.Tag }

// Message is a message that Mprobe has taken out of the queue. MrecvPreallocBytes receives it. (MPI-4.1, chapter 3.8.2)
type Message struct {
	m gorun.Message
}

// Probe waits until a message can be received, and tells of it. (MPI-4.1, chapter 3.8.1)
func (o Communicator) Probe(source int, tag int) Status {
	s, err := o.comm.Probe(source, tag)
	must(o.comm, err)
	return Status{s}
}

// Iprobe reports whether a message can be received, and tells of it. (MPI-4.1, chapter 3.8.1)
func (o Communicator) Iprobe(source, tag int) (bool, Status) {
	s, ok, err := o.comm.Iprobe(source, tag)
	must(o.comm, err)
	return ok, Status{s}
}

// Mprobe waits like Probe and takes the message, so that no other receive can. It must be received by
// MrecvPreallocBytes. (MPI-4.1, chapter 3.8.2)
func (o Communicator) Mprobe(source int, tag int) (Status, Message) {
	m, s, err := o.comm.Mprobe(source, tag)
	must(o.comm, err)
	return Status{s}, Message{m}
}

// MrecvPreallocBytes receives a message that Mprobe has taken. fromID and tag play no part: the message is given.
// (MPI-4.1, chapter 3.8.3)
func (o Communicator) MrecvPreallocBytes(vals []byte, fromID int, tag int, msg Message) Status {
	s, err := gorun.Mrecv(msg.m, vals)
	must(o.comm, err)
	return Status{s}
}

// MrecvBytes is RecvBytes. (MPI-4.1, chapter 3.8.3)
func (o Communicator) MrecvBytes(fromID int, tag int) ([]byte, Status) {
	return receive[byte](o, fromID, tag)
}
