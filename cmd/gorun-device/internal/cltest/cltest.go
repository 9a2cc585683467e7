// Package cltest gives tests the OpenCL libraries of Debian's packages. They read the environment of C, which
// os.Setenv does not change: it is for processes to be started.
package cltest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Devices says how many devices each library has in an Environment.
var Devices = map[string]int{"pocl": 2, "oclgrind": 1, "rusticl": 1}

// oclgrind is a library whose package does not tell OpenCL of it.
const oclgrind = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"

// Libraries returns those of pocl, oclgrind and rusticl that are here. rusticl takes half a second of processor time to load.
func Libraries() (found []string) {
	for _, name := range []string{"pocl", "oclgrind", "rusticl"} {
		if library(name) != "" {
			found = append(found, name)
		}
	}
	return found
}

// Need ends a test where no library is here, with what to install. In CI all must be.
func Need(t testing.TB) {
	t.Helper()
	found := Libraries()
	const remedy = "install ocl-icd-libopencl1 pocl-opencl-icd oclgrind mesa-opencl-icd"
	if os.Getenv("CI") == "true" && len(found) < len(Devices) {
		t.Fatalf("of OpenCL's libraries only %v are here; %s", found, remedy)
	}
	if len(found) == 0 {
		t.Skip("no library of OpenCL is here; " + remedy)
	}
}

// library returns the file of a library, or "".
func library(name string) string {
	if name == "oclgrind" {
		if _, err := os.Stat(oclgrind); err != nil {
			return ""
		}
		return oclgrind
	}
	text, _ := os.ReadFile("/etc/OpenCL/vendors/" + name + ".icd")
	return strings.TrimSpace(string(text))
}

// Environment returns the present environment and what makes these libraries tell their devices. Their files go to dir.
func Environment(dir string, libraries ...string) ([]string, error) {
	vendors := filepath.Join(dir, "vendors-"+strings.Join(libraries, "-"))
	if err := os.MkdirAll(vendors, 0o755); err != nil {
		return nil, err
	}
	for _, name := range libraries {
		if err := os.WriteFile(filepath.Join(vendors, name+".icd"), []byte(library(name)), 0o644); err != nil {
			return nil, err
		}
	}
	return append(os.Environ(), "OCL_ICD_VENDORS="+vendors, "POCL_DEVICES=basic pthread", "POCL_CACHE_DIR="+filepath.Join(dir, "pocl"),
		"RUSTICL_ENABLE=llvmpipe", "TMPDIR="+dir), nil
}
