"""Copy tables again as a whole: under one snapshot into shadows, which then take their places."""
