package wal

// Report is what Check or Salvage found in a log.
type Report struct {
	Segments int    // that are needed and intact up to End, the last perhaps in part
	Batches  int    // that are intact, from the first needed segment on
	Bytes    int64  // of these batches
	Start    uint64 // position of the first
	End      uint64 // position after the last
}

// Check reads the log in o.Dir as Open would, without changing it. It passes each intact batch to
// visit (which may be nil). The report covers the intact part even if the error is a *CorruptError.
// Of o only FS, Dir and Progress matter. The log must not be open.
func Check(o Options, first uint64, visit func(lsn uint64, batch []byte) error) (Report, error) {
	var report Report
	r, err := scan(&o, first, func(lsn uint64, batch []byte) error {
		report.Batches++
		report.Bytes += int64(len(batch))
		if visit == nil {
			return nil
		}
		return visit(lsn, batch)
	})
	report.Segments, report.Start, report.End = r.wholeIn+1, r.whole, r.whole
	if r.wholeIn >= 0 {
		report.Start = r.files[0].start
	}
	return report, err
}
