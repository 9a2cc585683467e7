package mpi

import (
	"errors"
	"testing"
)

// A process without gorun is a job of one rank, from Start to Stop, once.
func TestProcess(t *testing.T) {
	if IsOn() {
		t.Skip("a process is a rank once, and this one was")
	}
	Start(true)
	began := WorldTime()
	all, alone := NewCommunicator(nil), NewCommunicator([]int{0})
	sum := make([]int64, 1)
	err := alone.AllreduceInt64s(sum, []int64{7}, OpSum, 0)
	all.SendByte(3, 0, 5)
	got, _ := all.RecvByte(0, 5)
	took := WorldTime() - began
	if err := errors.Join(err, same("on", IsOn(), true), same("world", []int{WorldRank(), WorldSize(), all.Rank(), all.Size(), alone.Size()}, []int{0, 1, 0, 1, 1}),
		same("sum and message", []int64{sum[0], int64(got)}, []int64{7, 3})); err != nil {
		t.Error(err)
	}
	if took < 0 || took > 60 {
		t.Errorf("it took %v s", took)
	}
	Stop()
	if !IsOn() {
		t.Error("off after Stop")
	}
}
