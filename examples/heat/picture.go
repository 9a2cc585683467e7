package main

import (
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"

	"github.com/gorun-mpi/gorun/examples/heat/plate"
)

// writePicture draws the field of n x n temperatures, black over red and yellow
// to white as in glowing iron.
func writePicture(name string, field []float64, n int) error {
	img := image.NewPaletted(image.Rect(0, 0, n, n), glow())
	for i, v := range field {
		img.Pix[i] = uint8(min(max(v/plate.Hot, 0), 1) * 255)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(png.Encode(f, img), f.Close())
}

// glow returns the colours of temperatures from 0 to plate.Hot.
func glow() color.Palette {
	p := make(color.Palette, 256)
	for i := range p {
		p[i] = color.RGBA{clamp(3 * i), clamp(3*i - 255), clamp(3*i - 510), 255}
	}
	return p
}

func clamp(v int) uint8 { return uint8(min(max(v, 0), 255)) }
