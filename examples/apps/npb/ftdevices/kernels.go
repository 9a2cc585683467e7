package main

import "github.com/gorun-mpi/gorun/device"

// evolve lets time pass for a block of the spectrum, and copies it to where it is transformed. y0 is the first y of the block.
var evolve = device.NewKernel(
	device.OpenCL("evolve", `
		#pragma OPENCL EXTENSION cl_khr_fp64 : enable
		#pragma OPENCL FP_CONTRACT OFF
		kernel void evolve(global double *work, global double *spectrum, global const double *ex, global const double *ey, global const double *ez, int y0, int nx, int nz) {
			int i = get_global_id(0);
			double t = ez[i / nx % nz] * ey[y0 + i / nx / nz] * ex[i % nx];
			spectrum[2 * i] *= t;
			spectrum[2 * i + 1] *= t;
			work[2 * i] = spectrum[2 * i];
			work[2 * i + 1] = spectrum[2 * i + 1];
		}`),
	device.Go("evolve", func(w device.Work, work, spectrum, ex, ey, ez []float64, y0, nx, nz int32) {
		for i, end := w.Range(0); i < end; i++ {
			x, z, y := i%int(nx), i/int(nx)%int(nz), int(y0)+i/int(nx)/int(nz)
			t := ez[z] * ey[y] * ex[x]
			spectrum[2*i] *= t
			spectrum[2*i+1] *= t
			work[2*i], work[2*i+1] = spectrum[2*i], spectrum[2*i+1]
		}
	}))

// transform is a Fourier transform of many series of n complex numbers, an item each, by the method of Cooley and Tukey. The i-th series begins at number
// (i/inner)*outer + (i%inner)*step, and its numbers are stride apart. sign is that of the roots of unity.
var transform = device.NewKernel(
	device.OpenCL("transform", `
		#pragma OPENCL EXTENSION cl_khr_fp64 : enable
		#pragma OPENCL FP_CONTRACT OFF
		kernel void transform(global double *x, global const double *roots, int n, int inner, int outer, int step, int stride, double sign) {
			int item = get_global_id(0);
			global double *s = x + 2 * ((size_t)(item / inner) * outer + (size_t)(item % inner) * step);
			size_t apart = 2 * (size_t)stride;
			for (int i = 1, j = 0; i < n; i++) { // bits in reverse
				int bit = n >> 1;
				for (; j & bit; bit >>= 1)
					j ^= bit;
				j ^= bit;
				if (i < j) {
					double re = s[i * apart], im = s[i * apart + 1];
					s[i * apart] = s[j * apart];
					s[i * apart + 1] = s[j * apart + 1];
					s[j * apart] = re;
					s[j * apart + 1] = im;
				}
			}
			for (int part = 1; part < n; part *= 2)
				for (int from = 0; from < n; from += 2 * part)
					for (int k = 0; k < part; k++) {
						int root = k * (n / (2 * part));
						double c = roots[2 * root], d = sign * roots[2 * root + 1];
						global double *a = s + (from + k) * apart, *b = a + part * apart;
						double re = b[0] * c - b[1] * d, im = b[0] * d + b[1] * c;
						b[0] = a[0] - re;
						b[1] = a[1] - im;
						a[0] += re;
						a[1] += im;
					}
		}`),
	device.Go("transform", func(w device.Work, x, roots []float64, n, inner, outer, step, stride int32, sign float64) {
		for i, end := w.Range(0); i < end; i++ {
			at := i/int(inner)*int(outer) + i%int(inner)*int(step)
			series(x[2*at:], roots, int(n), 2*int(stride), sign)
		}
	}))

// series transforms one. Its numbers are apart elements from each other.
func series(s, roots []float64, n, apart int, sign float64) {
	for i, j := 1, 0; i < n; i++ {
		bit := n >> 1
		for ; j&bit != 0; bit >>= 1 {
			j ^= bit
		}
		if j ^= bit; i < j {
			s[i*apart], s[j*apart] = s[j*apart], s[i*apart]
			s[i*apart+1], s[j*apart+1] = s[j*apart+1], s[i*apart+1]
		}
	}
	for half := 1; half < n; half *= 2 {
		for from := 0; from < n; from += 2 * half {
			for k := range half {
				root := k * (n / (2 * half))
				c, d := roots[2*root], sign*roots[2*root+1]
				a, b := (from+k)*apart, (from+k+half)*apart
				// Conversions keep products from being contracted, as the pragma does.
				re, im := float64(s[b]*c)-float64(s[b+1]*d), float64(s[b]*d)+float64(s[b+1]*c)
				s[b], s[b+1] = s[a]-re, s[a+1]-im
				s[a] += re
				s[a+1] += im
			}
		}
	}
}
