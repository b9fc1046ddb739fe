package chart

import (
	"math"
	"slices"
)

// axis places values between 0, its left end, and 1.
type axis struct {
	low, high float64
	log       bool
	ticks     []float64
}

// newAxis returns the shortest axis with round ends that has a place for all
// values.
func newAxis(values []float64, log bool) axis {
	least, greatest := slices.Min(values), slices.Max(values)
	if log {
		return logAxis(least, greatest)
	}
	return linearAxis(greatest)
}

// Steps between ticks: 1, 2 or 5 of some power of ten.
var steps = []float64{1, 2, 5, 10}

// linearSteps is how many steps a linear axis has at most: as many numbers as fit
// below it.
const linearSteps = 5

func linearAxis(greatest float64) axis {
	if greatest == 0 {
		greatest = 1
	}
	power := math.Pow(10, math.Floor(math.Log10(greatest/linearSteps)))
	step := power
	for _, s := range steps {
		if step = s * power; step*linearSteps >= greatest {
			break
		}
	}
	a := axis{}
	for i := 0; ; i++ {
		a.high = float64(i) * step
		a.ticks = append(a.ticks, a.high)
		if a.high >= greatest {
			return a
		}
	}
}

// logTicks is how many numbers fit below a logarithmic axis; where 1, 2 and 5 of
// each power of ten are more, the powers have to do.
const logTicks = 9

func logAxis(least, greatest float64) axis {
	a := axis{log: true}
	if a.ticks = logRange(least, greatest, steps[:3]); len(a.ticks) > logTicks {
		a.ticks = logRange(least, greatest, steps[:1])
	}
	a.low, a.high = a.ticks[0], a.ticks[len(a.ticks)-1]
	return a
}

// logRange returns multiples of powers of ten, from the last that is not above
// least to the first that is above greatest.
func logRange(least, greatest float64, multiples []float64) (ticks []float64) {
	for power := math.Pow(10, math.Floor(math.Log10(least))); ; power *= 10 {
		for _, m := range multiples {
			tick := m * power
			if tick <= least {
				ticks = ticks[:0]
			}
			if ticks = append(ticks, tick); tick > greatest {
				return ticks
			}
		}
	}
}

// at is the place of v; what is beyond an end is at the end.
func (a axis) at(v float64) float64 {
	v = min(max(v, a.low), a.high)
	if a.log {
		return math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return (v - a.low) / (a.high - a.low)
}
