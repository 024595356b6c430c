-- KEYS log.
return last_position(KEYS[1])
