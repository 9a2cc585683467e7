package mpi

import "testing"

// The calls of tag v0.2.0, with what they take and return. A program that uses any of them compiles.
type reductions interface {
	ReduceBytes(dest, orig []byte, op Op, root int) error
	ReduceUint32s(dest, orig []uint32, op Op, root int) error
	ReduceInt32s(dest, orig []int32, op Op, root int) error
	ReduceUint64s(dest, orig []uint64, op Op, root int) error
	ReduceInt64s(dest, orig []int64, op Op, root int) error
	ReduceFloat32s(dest, orig []float32, op Op, root int) error
	ReduceFloat64s(dest, orig []float64, op Op, root int) error
	ReduceComplex128s(dest, orig []complex128, op Op, root int) error
	AllreduceBytes(dest, orig []byte, op Op, root int) error
	AllreduceUint32s(dest, orig []uint32, op Op, root int) error
	AllreduceInt32s(dest, orig []int32, op Op, root int) error
	AllreduceUint64s(dest, orig []uint64, op Op, root int) error
	AllreduceInt64s(dest, orig []int64, op Op, root int) error
	AllreduceFloat32s(dest, orig []float32, op Op, root int) error
	AllreduceFloat64s(dest, orig []float64, op Op, root int) error
	AllreduceComplex128s(dest, orig []complex128, op Op, root int) error
	BcastBytes(x []byte, root int)
	BcastUint32s(x []uint32, root int)
	BcastInt32s(x []int32, root int)
	BcastUint64s(x []uint64, root int)
	BcastInt64s(x []int64, root int)
	BcastFloat32s(x []float32, root int)
	BcastFloat64s(x []float64, root int)
	BcastComplex128s(x []complex128, root int)
}

type slices interface {
	SendBytes(vals []byte, toID int, tag int)
	SendUInt32s(vals []uint32, toID int, tag int)
	SendInt32s(vals []int32, toID int, tag int)
	SendUint64s(vals []uint64, toID int, tag int)
	SendInt64s(vals []int64, toID int, tag int)
	SendFloat64s(vals []float64, toID int, tag int)
	SendComplex128s(vals []complex128, toID int, tag int)
	SendString(s string, toID, tag int)
	RecvPreallocBytes(vals []byte, fromID int, tag int) Status
	RecvPreallocUint32s(vals []uint32, fromID int, tag int) Status
	RecvPreallocInt32s(vals []int32, fromID int, tag int) Status
	RecvPreallocUint64s(vals []uint64, fromID int, tag int) Status
	RecvPreallocInt64s(vals []int64, fromID int, tag int) Status
	RecvPreallocFloat64s(vals []float64, fromID int, tag int) Status
	RecvPreallocComplex128s(vals []complex128, fromID int, tag int) Status
	RecvBytes(fromID int, tag int) ([]byte, Status)
	RecvUint32s(fromID int, tag int) ([]uint32, Status)
	RecvInt32s(fromID int, tag int) ([]int32, Status)
	RecvUint64s(fromID int, tag int) ([]uint64, Status)
	RecvInt64s(fromID int, tag int) ([]int64, Status)
	RecvFloat64s(fromID int, tag int) ([]float64, Status)
	RecvComplex128s(fromID int, tag int) ([]complex128, Status)
	RecvString(fromID, tag int) (string, Status)
}

type values interface {
	SendByte(v byte, toID int, tag int)
	SendUint32(v uint32, toID int, tag int)
	SendInt32(v int32, toID int, tag int)
	SendUint64(v uint64, toID int, tag int)
	SendInt64(v int64, toID int, tag int)
	SendFloat64(v float64, toID int, tag int)
	SendComplex128(v complex128, toID, tag int)
	RecvByte(fromID, tag int) (byte, Status)
	RecvUint32(fromID, tag int) (uint32, Status)
	RecvInt32(fromID, tag int) (int32, Status)
	RecvUint64(fromID, tag int) (uint64, Status)
	RecvInt64(fromID, tag int) (int64, Status)
	RecvFloat64(fromID, tag int) (float64, Status)
	RecvComplex128(fromID, tag int) (complex128, Status)
}

type others interface {
	Rank() (rank int)
	Size() (size int)
	Abort(errcode int)
	Barrier()
	GetAttr(attribute int) (int, bool, error)
	GetMaxTag() (int, error)
	Probe(source int, tag int) Status
	Iprobe(source, tag int) (bool, Status)
	Mprobe(source int, tag int) (Status, Message)
	MrecvPreallocBytes(vals []byte, fromID int, tag int, msg Message) Status
	MrecvBytes(fromID int, tag int) ([]byte, Status)
}

var (
	_ interface {
		reductions
		slices
		values
		others
	} = Communicator{}
	_ interface {
		GetCount(t DataType) int
		GetError() int
		GetSource() int
		GetTag() int
	} = Status{}
	_ func() bool                    = IsOn
	_ func(bool)                     = Start
	_ func()                         = Stop
	_ func() int                     = WorldRank
	_ func() int                     = WorldSize
	_ func() float64                 = WorldTime
	_ func(ranks []int) Communicator = NewCommunicator
	_                                = [...]int{MPI_ANY_SOURCE, MPI_ANY_TAG}
)

// Constants have the values and names of the original: programs print and store them.
func TestConstants(t *testing.T) {
	for i, want := range []string{"Byte", "Uint", "Int", "Ulong", "Long", "Float", "Double", "Complex", "DataType(8)"} {
		if got := DataType(i).String(); got != want {
			t.Errorf("type %d is %s, not %s", i, got, want)
		}
	}
	for i, want := range []string{"OpSum", "OpMin", "OpMax", "OpProd", "OpLand", "OpLor", "OpLxor", "OpBand", "OpBor", "OpBxor", "Op(10)"} {
		if got := Op(i).String(); got != want {
			t.Errorf("operation %d is %s, not %s", i, got, want)
		}
	}
}
