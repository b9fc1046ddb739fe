package rawjson

import "encoding/binary"

// blockSize is how many bytes are looked at together: a bit of a word for each.
const blockSize = 64

// plainBlock is a block of a line, of which it knows the bytes that are not plain: those
// that end a string or begin an escape, and control characters, which no string may have.
// The zero value is in front of the first block.
type plainBlock struct {
	end   int    // of the block in the line
	stops uint64 // bit n is set if byte n of the block is not plain
	other uint64 // not zero if a byte was beyond ASCII, in this block or one before
}

// next goes on to the next block of line. It is small enough to be inlined, so that the
// block stays in registers.
func (b *plainBlock) next(line []byte) {
	var other uint64
	b.stops, other = scan(line, b.end)
	b.other |= other
	b.end += blockSize
}

// scan scans the block of line at i. Missing bytes count as control characters.
func scan(line []byte, i int) (stops, other uint64) {
	rest := line[i:]
	if len(rest) >= blockSize {
		return scanBlock((*[blockSize]byte)(rest))
	}
	var plain, last uint64
	at := len(rest) - 8 // the last word, which overlaps the one before
	if at < 0 {
		at = 0
		for j := len(rest) - 1; j >= 0; j-- {
			last = last<<8 | uint64(rest[j])
		}
	} else {
		last = binary.LittleEndian.Uint64(rest[at:])
		for j := 0; j < at; j += 8 {
			x := binary.LittleEndian.Uint64(rest[j : j+8])
			plain |= plainBytes(x) << j
			other |= x
		}
	}
	plain |= plainBytes(last) << at
	return ^plain, (other | last) & masks.high
}

// plainBytes returns a bit for each byte of x that is plain or beyond ASCII.
func plainBytes(x uint64) uint64 {
	y := x & masks.low
	return (((y^masks.quote)+masks.notQuote)&((y^masks.backslash)+masks.low) | x) & masks.high * masks.gather >> 56
}

// each has a byte in each byte of a word.
const each = 0x0101010101010101

// masks are constants in variables, which stay in registers: constants would be loaded
// anew for each word and take a fifth longer.
var masks = struct {
	low       uint64 // all bits but the highest
	quote     uint64 // what makes a control character or a quote less than 0x21, and nothing else
	notQuote  uint64 // what, added to that, sets the highest bit if it is not less
	backslash uint64
	high      uint64 // the highest bits
	gather    uint64 // what multiplied moves the highest bits into the highest byte, the first lowest
}{0x7f * each, 0x02 * each, (0x80 - 0x21) * each, '\\' * each, 0x80 * each, 0x0002040810204081}

// scanBlock returns a bit for each byte that is not plain, and something with a highest
// bit set if a byte is beyond ASCII, which is plain.
//
// It takes the eight bytes of a word together. Nothing is carried from one byte into the
// next: what is added has no highest bits.
func scanBlock(p *[blockSize]byte) (stops, other uint64) {
	low, quote, notQuote, backslash, high, gather := masks.low, masks.quote, masks.notQuote, masks.backslash, masks.high, masks.gather
	plain := func(x uint64) uint64 {
		y := x & low
		return (((y^quote)+notQuote)&((y^backslash)+low) | x) & high * gather >> 56
	}
	// By hand, not in a loop, which would take a fifth longer.
	x := binary.LittleEndian.Uint64(p[56:])
	bits, other := plain(x), x
	x = binary.LittleEndian.Uint64(p[48:])
	bits, other = bits<<8|plain(x), other|x
	x = binary.LittleEndian.Uint64(p[40:])
	bits, other = bits<<8|plain(x), other|x
	x = binary.LittleEndian.Uint64(p[32:])
	bits, other = bits<<8|plain(x), other|x
	x = binary.LittleEndian.Uint64(p[24:])
	bits, other = bits<<8|plain(x), other|x
	x = binary.LittleEndian.Uint64(p[16:])
	bits, other = bits<<8|plain(x), other|x
	x = binary.LittleEndian.Uint64(p[8:])
	bits, other = bits<<8|plain(x), other|x
	x = binary.LittleEndian.Uint64(p[0:])
	bits, other = bits<<8|plain(x), other|x
	return ^bits, other & high
}
