package main

// ofReviews has a defect for each promise of the records of admission reviews: nothing of
// an object that was not asked for, no more memory than was said, and the verdict that the API
// server takes.
var ofReviews = []mutant{
	{
		defect: "the content of a review is kept though nobody has asked for it",
		file:   "decision/reviewreader.go",
		old:    `(part.content == "" || slices.Contains(r.include, part.content))`,
		new:    `(part.content == "" || slices.Contains(r.include, part.content) || len(p) > 0)`,
		tests:  []string{"TestReviewLeavesContentOut"},
	},
	{
		defect: "an escaped name hides what a member of a review is",
		file:   "decision/reviewreader.go",
		old:    "find(rawjson.Value(r.buf[r.begin:]).Text())",
		new:    "find(r.buf[r.begin+1 : len(r.buf)-1])",
		tests:  []string{"TestReviewLeavesContentOut", "TestReviewAnswers"},
	},
	{
		defect: "a review has no bound for one value",
		file:   "decision/reviewreader.go",
		old:    "if size > r.limit || size > r.room() {",
		new:    "if size > r.room() {",
		tests:  []string{"TestReviewOmitsWhatIsLarge"},
	},
	{
		defect: "a review has no bound for all of its values",
		file:   "decision/reviewreader.go",
		old:    "if size > r.limit || size > r.room() {",
		new:    "if size > r.limit {",
		tests:  []string{"TestReviewReaderIsBounded"},
	},
	{
		defect: "a value that was left out is not named",
		file:   "decision/reviewreader.go",
		old:    "\t\tr.omitted |= 1 << part.slot\n",
		new:    "",
		tests:  []string{"TestReviewOmitsWhatIsLarge"},
	},
	{
		defect: "a piece of a review is kept beyond Write",
		file:   "decision/reviewreader.go",
		old:    "\tr.buf = append(r.buf, p...)\n}",
		new:    "\tif len(r.buf) == 0 {\n\t\tr.buf = p\n\t\treturn\n\t}\n\tr.buf = append(r.buf, p...)\n}",
		tests:  []string{"TestFromReviewOfSamples", "TestRandomReviews"},
	},
	{
		defect: "null takes nothing back of what stood before it",
		file:   "decision/reviewreader.go",
		old:    "\t\tr.seen &^= part.resets\n",
		new:    "",
		tests:  []string{"TestReviewAnswers"},
	},
	{
		defect: "the verdict on another request counts",
		file:   "decision/review.go",
		old:    "case !r.is(answeredUID, uid):",
		new:    "case false && !r.is(answeredUID, uid):",
		tests:  []string{"TestReviewFailures"},
	},
	{
		defect: "an answer of any version counts",
		file:   "decision/review.go",
		old:    "asked.seen.has(reviewAPIVersion) && !(r.is",
		new:    "false && !(r.is",
		tests:  []string{"TestReviewFailures"},
	},
	{
		defect: "half an answer counts",
		file:   "decision/reviewreader.go",
		old:    `	return errors.New("ends in the middle")`,
		new:    "\treturn nil",
		tests:  []string{"TestFromReviewOfSamples"},
	},
	{
		defect: "a patch that is no base64 counts",
		file:   "decision/base64size.go",
		old:    "return !s.bad && s.padding <= 2 && ",
		new:    "return ",
		tests:  []string{"TestReviewFailures"},
	},
	{
		defect: "an escaped digit of a patch counts as many",
		file:   "decision/base64size.go",
		old:    "\tcase c == '\\\\':\n\t\t\ts.escaped = true\n",
		new:    "",
		tests:  []string{"TestReviewAnswers"},
	},
	{
		defect: "a failed review makes room for a warning",
		file:   "client/config.go",
		old:    "decision.Deny, decision.Error, decision.Warn, decision.DryRun, decision.Allow}",
		new:    "decision.Deny, decision.Warn, decision.Error, decision.DryRun, decision.Allow}",
		tests:  []string{"TestErrorsAreKeptAndCounted"},
	},
	{
		defect: "errors that a producer lost are counted under another name",
		file:   "exporter/loss.go",
		old:    "string(decision.Deny), string(decision.Error), ",
		new:    "string(decision.Deny), ",
		tests:  []string{"TestParseLoss"},
	},
	{
		defect: "the patch of a Secret stays in the record of its review",
		file:   "exporter/redact/secrets.go",
		old:    "(list.name == nameRequestObject || list.name == namePatch)",
		new:    "list.name == nameRequestObject",
		tests:  []string{"TestKubernetesSecrets"},
	},
	{
		defect: "the object of a Secret without its kind stays in the record of its review",
		file:   "exporter/redact/secrets.go",
		old:    "case nameRequestObject, nameResponseObject, nameObject, nameOldObject:",
		new:    "case nameRequestObject, nameResponseObject:",
		tests:  []string{"TestKubernetesSecrets"},
	},
}
