// Users and roles: methods of databases, beside those in database.js.

const NOT_FOUND = { user: 11, role: 31 };

function checkUserReply(reply, what) {
  if (!reply.ok) throw new MongoServerError(`${what}: ${reply.errmsg}`, reply);
  return reply;
}

const concernField = (writeConcern) => (writeConcern === undefined ? {} : { writeConcern: { ...writeConcern } });

// A user as it is shown: without its password.
function shownUser(user) {
  const { pwd, ...shown } = user;
  return shown;
}

function dropNamed(database, command, code) {
  const reply = database.runCommand(command);
  if (!reply.ok && reply.code === code) return false;
  checkUserReply(reply, `${Object.keys(command)[0]} failed`);
  return true;
}

function change(database, command) {
  checkUserReply(database.runCommand(command), `${Object.keys(command)[0]} failed`);
}

// The role, or user, of that name; null where there is none.
function oneOf(database, command, list) {
  const found = checkUserReply(database.runCommand(command), `${Object.keys(command)[0]} failed`)[list];
  return found.length ? found[0] : null;
}

hide(DB.prototype, {
  auth(user, password) {
    const parts = user !== null && typeof user === "object" ? user : { user, pwd: password };
    const { user: name, pwd, mechanism } = parts;
    const certified = mechanism === "MONGODB-X509";
    if (typeof name !== "string" && !certified) throw new Error("auth() needs the name of a user");
    const secret = certified ? "" : pwd === undefined ? passwordPrompt() : pwd;
    try {
      callHost("authenticate", this._mongo.connection, this._name, name ?? "", secret, mechanism);
    } catch (failure) {
      print(String(failure));
      return 0;
    }
    return 1;
  },
  logout() {
    callHost("forget", this._mongo.connection, this._name);
    return this.runCommand({ logout: 1 });
  },
  createUser(user, writeConcern) {
    const { user: name, ...rest } = user;
    const reply = this.runCommand({ createUser: name, ...rest, ...concernField(writeConcern) });
    checkUserReply(reply, "couldn't add user");
    print("Successfully added user: " + tojson(shownUser(user)));
  },
  addUser(...parts) {
    const [first, pwd, readOnly] = parts;
    const roles = [readOnly ? "read" : "readWrite"];
    this.createUser(typeof first === "string" ? { user: first, pwd, roles } : first);
  },
  updateUser(name, changes, writeConcern) {
    const reply = this.runCommand({ updateUser: name, ...changes, ...concernField(writeConcern) });
    checkUserReply(reply, "Updating user failed");
  },
  changeUserPassword(name, password, writeConcern) {
    this.updateUser(name, { pwd: password }, writeConcern);
  },
  dropUser(name, writeConcern) {
    return dropNamed(this, { dropUser: name, ...concernField(writeConcern) }, NOT_FOUND.user);
  },
  removeUser(name, writeConcern) {
    return this.dropUser(name, writeConcern);
  },
  dropAllUsers(writeConcern) {
    const reply = this.runCommand({ dropAllUsersFromDatabase: 1, ...concernField(writeConcern) });
    return checkUserReply(reply, "dropAllUsersFromDatabase failed").n;
  },
  getUser(name, options) {
    return oneOf(this, { usersInfo: name, ...options }, "users");
  },
  getUsers(options) {
    return checkUserReply(this.runCommand({ usersInfo: 1, ...options }), "usersInfo failed").users;
  },
  grantRolesToUser(name, roles, writeConcern) {
    change(this, { grantRolesToUser: name, roles, ...concernField(writeConcern) });
  },
  revokeRolesFromUser(name, roles, writeConcern) {
    change(this, { revokeRolesFromUser: name, roles, ...concernField(writeConcern) });
  },
  createRole(role, writeConcern) {
    const { role: name, ...rest } = role;
    change(this, { createRole: name, ...rest, ...concernField(writeConcern) });
    printjson(role);
  },
  updateRole(name, changes, writeConcern) {
    change(this, { updateRole: name, ...changes, ...concernField(writeConcern) });
  },
  dropRole(name, writeConcern) {
    return dropNamed(this, { dropRole: name, ...concernField(writeConcern) }, NOT_FOUND.role);
  },
  dropAllRoles(writeConcern) {
    const reply = this.runCommand({ dropAllRolesFromDatabase: 1, ...concernField(writeConcern) });
    return checkUserReply(reply, "dropAllRolesFromDatabase failed").n;
  },
  grantRolesToRole(name, roles, writeConcern) {
    change(this, { grantRolesToRole: name, roles, ...concernField(writeConcern) });
  },
  revokeRolesFromRole(name, roles, writeConcern) {
    change(this, { revokeRolesFromRole: name, roles, ...concernField(writeConcern) });
  },
  grantPrivilegesToRole(name, privileges, writeConcern) {
    change(this, { grantPrivilegesToRole: name, privileges, ...concernField(writeConcern) });
  },
  revokePrivilegesFromRole(name, privileges, writeConcern) {
    change(this, { revokePrivilegesFromRole: name, privileges, ...concernField(writeConcern) });
  },
  getRole(name, options) {
    return oneOf(this, { rolesInfo: name, ...options }, "roles");
  },
  getRoles(options) {
    return checkUserReply(this.runCommand({ rolesInfo: 1, ...options }), "rolesInfo failed").roles;
  },
});

function passwordPrompt() {
  return callHost("password");
}
