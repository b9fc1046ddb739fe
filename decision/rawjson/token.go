package rawjson

// at returns the byte at i, and 0, which is no JSON, beyond the end.
func at(line []byte, i int) byte {
	if uint(i) < uint(len(line)) {
		return line[i]
	}
	return 0
}

// token returns where the white space from i on ends, and the byte there.
func token(line []byte, i int) (int, byte) {
	if uint(i) < uint(len(line)) && line[i] > ' ' {
		return i, line[i]
	}
	i = spaceEnd(line, i)
	return i, at(line, i)
}

func spaceEnd(line []byte, i int) int {
	for {
		switch at(line, i) {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
}

// escapes are the bytes that may follow a backslash, but for the u.
var escapes = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

var hex = [256]uint8{
	'0': 1, '1': 1, '2': 1, '3': 1, '4': 1, '5': 1, '6': 1, '7': 1, '8': 1, '9': 1,
	'a': 1, 'b': 1, 'c': 1, 'd': 1, 'e': 1, 'f': 1,
	'A': 1, 'B': 1, 'C': 1, 'D': 1, 'E': 1, 'F': 1,
}

// hasFourHex reports whether there are four hexadecimal digits at i. Those of a lone
// surrogate are as good as others.
func hasFourHex(line []byte, i int) bool {
	if len(line)-i < 4 {
		return false
	}
	d := line[i : i+4 : i+4]
	return hex[d[0]]&hex[d[1]]&hex[d[2]]&hex[d[3]] == 1
}

// literalEnd returns the index behind the literal at i, or -1 if there is none.
func literalEnd(line []byte, i int) int {
	rest := line[i:]
	switch {
	case len(rest) >= 4 && (string(rest[:4]) == "true" || string(rest[:4]) == "null"):
		return i + 4
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return i + 5
	}
	return -1
}

// numberEnd returns the index behind the number whose first byte, a minus or a digit, is
// at i, or -1 if it is no number.
func numberEnd(line []byte, i int) int {
	c := line[i]
	if c == '-' {
		i++
		c = at(line, i)
	}
	i++
	if c != '0' {
		if !isDigit(c) {
			return -1
		}
		i = digitsEnd(line, i)
	}
	c = at(line, i)
	if c == '.' {
		begin := i + 1
		if i = digitsEnd(line, begin); i == begin {
			return -1
		}
		c = at(line, i)
	}
	if c|0x20 == 'e' {
		i++
		if c = at(line, i); c == '+' || c == '-' {
			i++
		}
		begin := i
		if i = digitsEnd(line, begin); i == begin {
			return -1
		}
	}
	return i
}

func digitsEnd(line []byte, i int) int {
	for uint(i) < uint(len(line)) && isDigit(line[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c-'0' <= 9 }
