-- An empty warehouse with a role that may do nothing yet.
create role pgrepl login;
