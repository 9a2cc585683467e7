package proc

import "testing"

func TestNamesInProc(t *testing.T) {
	for path, want := range map[string]string{
		"/proc/7":                    "/proc/self",
		"/proc/7/stat":               "/proc/self/stat",
		"/proc/7/fdinfo/3":           "/proc/self/fdinfo/3",
		"/proc/7/task/7/stat":        "/proc/thread-self/stat",
		"/proc/7/task/7":             "/proc/thread-self",
		"/proc/7/task/8/stat":        "",
		"/proc/70/stat":              "",
		"/proc/meminfo":              "",
		"/home/proc/7/stat":          "",
		"/proc/sys/kernel/ostype":    "",
		"/proc/99999999999999999999": "",
	} {
		if got := OwnName(7, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
