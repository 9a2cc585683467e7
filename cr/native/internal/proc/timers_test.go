package proc

import (
	"reflect"
	"testing"
)

func TestParseTimers(t *testing.T) {
	got, err := ParseTimers([]byte("ID: 4\nsignal: 35/0000000000001092\nnotify: signal/pid.71\nClockID: -6\n" +
		"ID: 1\nsignal: 32/00007f00deadbee0\nnotify: signal/tid.72\nClockID: 1\nID: 7\nsignal: 0/0\nnotify: none/pid.71\nClockID: 0\n"))
	want := []Created{
		{ID: 1, Clock: 1, Notify: NotifyThread, Signal: 32, Value: 0x7f00deadbee0, TID: 72},
		{ID: 4, Clock: -6, Signal: 35, Value: 0x1092},
		{ID: 7, Notify: NotifyNone},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"signal: 1/0\n", "ID: x\n", "ID: 1\nnotify: thread/pid.1\n", "ID: 1\nsignal: 1/x\n"} {
		if _, err := ParseTimers([]byte(text)); err == nil {
			t.Errorf("no error: %q", text)
		}
	}
}

func TestParseLock(t *testing.T) {
	in, err := ParseFDInfo([]byte("flags:\t0100002\nlock:\t1: POSIX  ADVISORY  WRITE 77 fe:00:1234 10 14\nlock:\t2: FLOCK  ADVISORY  READ 77 fe:00:1234 0 EOF\n"))
	want := []Lock{{Class: LockPOSIX, Write: true, Start: 10, End: 14}, {Class: LockFlock, End: -1}}
	if err != nil || !reflect.DeepEqual(in.Locks, want) {
		t.Errorf("%+v, %v", in.Locks, err)
	}
}
