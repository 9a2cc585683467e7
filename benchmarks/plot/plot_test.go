package main

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const bookmarks = "schedule,ranks,rounds,messages,bytes,queue,seconds\n"

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       data
	}{
		{"compare", "contender,mode,bytes,seconds,low,high\ngorun,window,8,3e-6,2e-6,4e-6\n",
			data{messages, []point{{"gorun", "window", 8, 3e-6, 2e-6, 4e-6}}}},
		{"collectives", "contender,mode,ranks,seconds,low,high\ngorun,barrier,16,3e-6,2e-6,4e-6\n",
			data{scaling, []point{{"gorun", "barrier", 16, 3e-6, 2e-6, 4e-6}}}},
		{"netpipe", "mode,bytes,seconds,low,high\npingpong,8,3e-6,2e-6,4e-6\n",
			data{messages, []point{{"file", "pingpong", 8, 3e-6, 2e-6, 4e-6}}}},
		{"NetPIPE", "       1 2.5   0.00000320\n\n  1024 900 0.00000910\n",
			data{messages, []point{{"file", "pingpong", 1, 3.2e-6, 3.2e-6, 3.2e-6}, {"file", "pingpong", 1024, 9.1e-6, 9.1e-6, 9.1e-6}}}},
		{"checkpoint", "case,what,seconds,low,high\n4 x 256 MB,pause,0.2,0.1,0.3\n",
			data{times, []point{{"4 x 256 MB", "pause", 0, 0.2, 0.1, 0.3}}}},
		{"bookmarks", bookmarks + "staggered,64,65,4032,80640,3,0.0012\n",
			data{byRanks, []point{{"staggered", "rounds", 64, 65, 65, 65}, {"staggered", "messages", 64, 4032, 4032, 4032},
				{"staggered", "bytes", 64, 80640, 80640, 80640}, {"staggered", "queue", 64, 3, 3, 3}, {"staggered", "seconds", 64, 0.0012, 0.0012, 0.0012}}}},
	} {
		got, err := read(strings.NewReader(c.text), "file")
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v\nwant %+v", c.name, got, err, c.want)
		}
	}
	for _, text := range []string{"a,b\n1,2\n", "1 2\n", "1 x y\n", "mode,bytes,seconds,low,high\na,1,2\n", "mode,bytes,seconds,low,high\na,1,2,3,x\n"} {
		if d, err := read(strings.NewReader(text), "file"); err == nil {
			t.Errorf("%q was accepted as %+v", text, d)
		}
	}
}

// Every kind of file becomes a picture of each format with something in it.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"messages": "contender,mode,bytes,seconds,low,high\ngorun,pingpong,8,3e-6,2e-6,4e-6\ngorun,pingpong,1024,4e-6,3e-6,5e-6\nmpich,pingpong,8,5e-6,5e-6,5e-6\n",
		"scaling":  "contender,mode,ranks,seconds,low,high\ngorun,barrier,2,3e-6,2e-6,4e-6\ngorun,barrier,64,3e-5,2e-5,4e-5\n",
		"times":    "case,what,seconds,low,high\n4 x 256 MB,pause,0.2,0.1,0.3\n64 x 1 MB,pause,0.02,0.01,0.03\n64 x 1 MB,commit,0.2,0.1,0.3\n",
		"ranks":    bookmarks + "staggered,64,65,4032,80640,3,0\nstaggered,1024,1030,1047552,20951040,4,0.1\nsparse,64,9,500,10000,2,0\nsparse,1024,9,8000,160000,2,0\n",
	} {
		in := filepath.Join(dir, name+".csv")
		if err := os.WriteFile(in, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, throughput := range []bool{false, true} {
			svg, bitmap := filepath.Join(dir, name+".svg"), filepath.Join(dir, name+".png")
			for _, out := range []string{svg, bitmap} {
				if err := run([]string{in}, out, "A title", "", throughput); err != nil {
					t.Fatalf("%s: %v", out, err)
				}
			}
			if text, err := os.ReadFile(svg); err != nil || !bytes.Contains(text, []byte("A title")) {
				t.Errorf("%s: no title, %v", svg, err)
			}
			if !coloured(t, bitmap) {
				t.Errorf("%s is without colour: no line was drawn", bitmap)
			}
		}
	}
}

// coloured reports whether a picture has a pixel that is not a shade of grey.
func coloured(t *testing.T, name string) bool {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if r, g, b, _ := img.At(x, y).RGBA(); r != g || g != b {
				return true
			}
		}
	}
	return false
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	for name, text := range map[string]string{a: "mode,bytes,seconds,low,high\npingpong,0,1,1,1\n", b: bookmarks + "x,1,1,1,1,1,1\n"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out.svg")
	for _, files := range [][]string{nil, {filepath.Join(dir, "absent")}, {a, b}, {a}} {
		if err := run(files, out, "", "", false); err == nil {
			t.Errorf("%q became a picture", files)
		}
	}
	if err := run([]string{b}, out, "", "z", false); err == nil {
		t.Error("a quantity that is not there became a picture")
	}
}
