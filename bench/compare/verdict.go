package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// change is one figure on both sides.
type change struct {
	name        string
	unit        string
	base, head  float64 // medians
	significant bool    // in the eyes of benchstat
	p           string  // as benchstat writes it
}

// loss returns how much worse the head is, as a fraction of the base, and whether
// it is known what is worse; it is negative if the head is better.
func (c change) loss() (loss float64, known bool) {
	grown := (c.head - c.base) / c.base
	if c.base == 0 {
		grown = math.Copysign(math.Inf(1), c.head)
		if c.head == 0 {
			grown = 0
		}
	}
	switch {
	case strings.HasSuffix(c.unit, "/s"): // of whatever, each second
		return -grown, true
	case slices.Contains([]string{"sec/op", "s", "ms", "us", "B", "B/op", "allocs/op"}, c.unit):
		return grown, true
	}
	return 0, false
}

// Columns of a table of benchstat with two inputs.
const (
	nameColumn   = 0
	baseColumn   = 1
	headColumn   = 3
	changeColumn = 5
	pColumn      = 6
	allColumns   = 7
)

// errTable says that benchstat's output is not what it was when this was written:
// better no verdict than a wrong one.
var errTable = errors.New("benchstat -format csv: unexpected table")

// parseChanges reads the tables that benchstat -format csv writes, one for each
// package and unit: two lines of headings, a row for each benchmark, the geometric
// mean. What only one side has is left out.
func parseChanges(r io.Reader) ([]change, error) {
	lines := csv.NewReader(r)
	lines.FieldsPerRecord = -1
	records, err := lines.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTable, err)
	}
	var changes []change
	unit := ""
	for _, f := range records {
		switch {
		case len(f) == 1: // pkg: and the like
		case f[nameColumn] == "geomean":
		case f[nameColumn] == "" && (f[baseColumn] == "base" || f[baseColumn] == "head"):
		case f[nameColumn] == "":
			unit = f[baseColumn]
		case len(f) < allColumns: // only one side has it
		default:
			c, err := parseChange(f, unit)
			if err != nil {
				return nil, err
			}
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil, errors.New("base and head have no figure in common: nothing was compared")
	}
	return changes, nil
}

func parseChange(f []string, unit string) (change, error) {
	base, baseErr := strconv.ParseFloat(f[baseColumn], 64)
	head, headErr := strconv.ParseFloat(f[headColumn], 64)
	if err := errors.Join(baseErr, headErr); err != nil {
		return change{}, fmt.Errorf("%w: row %q: %w", errTable, f, err)
	}
	if f[changeColumn] == "" {
		return change{}, fmt.Errorf("%w: row %q says nothing about the difference", errTable, f)
	}
	return change{
		name: f[nameColumn], unit: unit, base: base, head: head,
		significant: f[changeColumn] != "~", p: f[pColumn],
	}, nil
}
